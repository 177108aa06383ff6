# ERROR: a task that has failed is kept with its error, and the error keeps what the task had made
# ROOM: 250
# FIRST: `tasks` keeps the variables of work\(\), which has failed \(200\.00 MiB\)
# FITS-AFTER: await work(20) -> tasks = [str(task.exception()) for task in tasks]; await work(20)
import asyncio

import torch


async def work(mib):
    made = torch.zeros(mib << 18, device="cuda")
    await asyncio.sleep(0)
    more = torch.zeros(mib << 18, device="cuda")
    return made, more, torch.zeros(mib << 18, device="cuda")  # request


async def main():
    tasks = [asyncio.create_task(work(100))]
    await asyncio.wait(tasks)
    await work(20)
    print(tasks)


asyncio.run(main())
