"""The heap of Python's as it is now: which tensors there are, what refers to them, and by which name the program does.

Its modules are used one by one. `raw_objects` reads an object without running code of its class's; `live_objects` lists
them, `live_tensors` has those on GPUs, `kept_pools` what holds private pools and `ended_frames` what exceptions keep. A
`reach.Reach` walks down from the names that `roots` has, and `names` says in words by which one something was reached.
Nothing here outlives its caller.
"""
