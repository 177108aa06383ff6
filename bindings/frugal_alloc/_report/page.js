"use strict";
(() => {
  document.documentElement.classList.add("scripted");

  // Tables: a heading sorts by its column, the largest first; again, and it turns round.
  const value = (row, column) => {
    const cell = row.children[column];
    return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const headings = [...table.tHead.rows[0].children];
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const up = heading.getAttribute("aria-sort") === "descending" ||
          (heading.className === "text" && heading.getAttribute("aria-sort") !== "ascending");
        headings.forEach((one) => one.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", up ? "ascending" : "descending");
        const body = table.tBodies[0], sign = up ? 1 : -1;
        const rows = [...body.rows].map((row) => [value(row, column), row]);
        rows.sort(([a], [b]) => sign * (typeof a === "number" && typeof b === "number" ? a - b
          : String(a).localeCompare(String(b), undefined, { numeric: true })));
        body.append(...rows.map(([, row]) => row));
      });
    });
  }

  // Flame graphs: selecting a box enlarges what is below it; the arrow keys go from box to box.
  for (const graph of document.querySelectorAll(".flame")) {
    const cells = [...graph.children].map((element) => {
      const [depth, left, width] = element.dataset.at.split(" ").map(Number);
      return { element, depth, left, right: left + width, width, text: element.title.split("\n")[0].replace(/: [^:]*$/, "") };
    });
    const inside = (one, other) => one.left >= other.left - 1e-6 && one.right <= other.right + 1e-3;
    // The one box that the Tab key comes to: a hidden one could not be reached.
    const reach = (chosen) => cells.forEach((cell) => { cell.element.tabIndex = cell === chosen ? 0 : -1; });
    const enlarge = (chosen) => {
      reach(chosen);
      for (const cell of cells) {
        const above = cell.depth < chosen.depth && inside(chosen, cell);
        const shown = above || (cell.depth >= chosen.depth && inside(cell, chosen));
        const scale = 100 / chosen.width;
        cell.element.hidden = !shown;
        cell.element.classList.toggle("above", above && cell.depth > 0);
        cell.element.style.left = above ? "0%" : (cell.left - chosen.left) * scale + "%";
        const width = above ? 100 : cell.width * scale;
        cell.element.style.width = width + "%";
        cell.element.textContent = width > 0.8 ? cell.text : "";
      }
    };
    const move = (from, key) => {
      const near = {
        ArrowDown: () => cells.find((cell) => cell.depth === from.depth + 1 && inside(cell, from)),
        ArrowUp: () => cells.find((cell) => cell.depth === from.depth - 1 && inside(from, cell)),
        ArrowRight: () => cells.find((cell) => cell.depth === from.depth && cell.left > from.left && !cell.element.hidden),
        ArrowLeft: () => cells.filter((cell) => cell.depth === from.depth && cell.left < from.left && !cell.element.hidden).pop(),
        Home: () => cells[0],
      }[key];
      return near && near();
    };
    for (const cell of cells) {
      cell.element.addEventListener("click", () => enlarge(cell));
      cell.element.addEventListener("keydown", (event) => {
        const next = event.key === "Escape" ? (enlarge(cells[0]), cells[0]) : move(cell, event.key);
        if (!next) return;
        event.preventDefault();
        reach(next);
        next.element.focus();
      });
    }
  }

  // Charts over time: a cursor that reads the point under it.
  for (const plot of document.querySelectorAll(".plot")) {
    const points = JSON.parse(plot.dataset.points), cursor = plot.querySelector(".cursor");
    const reading = plot.parentElement.querySelector(".reading");
    let at = points.length - 1;
    // What the arrow keys move is a slider to a screen reader, which then says the point itself.
    for (const [name, value] of [["role", "slider"], ["aria-valuemin", 1], ["aria-valuemax", points.length],
      ["aria-valuenow", points.length], ["aria-valuetext", "no point is read out yet"]]) plot.setAttribute(name, value);
    reading.setAttribute("aria-live", "off");
    const show = (number) => {
      at = Math.max(0, Math.min(points.length - 1, number));
      const [step, epoch, phase, allocated, peak, reserved] = points[at];
      cursor.hidden = false;
      cursor.style.left = 100 * at / (points.length - 1) + "%";
      reading.textContent = `step ${step.toLocaleString("en")}, epoch ${epoch}${phase ? ", " + phase : ""}: ` +
        `${allocated} allocated, at most ${peak}, ${reserved} reserved`;
      plot.setAttribute("aria-valuenow", at + 1);
      plot.setAttribute("aria-valuetext", reading.textContent);
    };
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      show(Math.round((event.clientX - box.left) / box.width * (points.length - 1)));
    });
    plot.addEventListener("keydown", (event) => {
      const last = points.length - 1;
      const end = { Home: 0, End: last }[event.key];
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
      if (end === undefined && step === undefined) return;
      event.preventDefault();
      show(end !== undefined ? end : cursor.hidden ? (step > 0 ? 0 : last) : at + step);
    });
  }
})();
