// A page that was opened from a file may not start a Worker. Its search then runs in a frame, which does the same.
if (location.protocol === "file:") {
  const beginning = `
    const listeners = [];
    self.addEventListener = (kind, listener) => kind === "message" ? listeners.push(listener) : undefined;
    self.deliver = (data) => listeners.forEach((listener) => listener({ data }));
    self.postMessage = (data) => parent.frameWorkers.get(self).tell(data);
    self.importScripts = (...addresses) => addresses.reduce((before, address) => before.then(() => new Promise((done) => {
      const script = document.createElement("script");
      script.onload = script.onerror = done;
      script.src = address;
      document.head.append(script);
    })), Promise.resolve());`;
  window.frameWorkers = new Map();
  window.Worker = class FrameWorker extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      window.frameWorkers.set(inner, this);
      inner.document.open();
      inner.document.write(`<!doctype html><script>${beginning}<\/script>`);
      inner.document.close();
      const script = inner.document.createElement("script");
      script.src = new URL(address, location.href).href;
      script.onload = () => {
        this.postMessage = (data) => setTimeout(() => inner.deliver(data));
        this.waiting.forEach((data) => this.postMessage(data));
      };
      script.onerror = () => this.dispatchEvent(new Event("error"));
      inner.document.head.append(script);
    }
    postMessage(data) {
      this.waiting.push(data);
    }
    tell(data) {
      this.dispatchEvent(new MessageEvent("message", { data }));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
