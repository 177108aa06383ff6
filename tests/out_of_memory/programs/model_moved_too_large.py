# ERROR: a model is moved for which there is no room, in half precision neither
# ROOM: 20, 35
# VERDICT: too_big
# FIRST: the model does not fit: its parameters take 80\.\d\d MiB, \d+\.\d\d MiB more than there is for them
# UNSAID: nothing is kept for backward
from project.models import layers

layers(40).cuda()
