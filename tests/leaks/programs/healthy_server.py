# HEALTHY: an inference server whose sessions end
# EPOCHS: calls, 30 ended, 0 steps
import torch
from torch import nn


class Server:
    def __init__(self, model):
        self.model = model
        self.sessions = {}

    @torch.inference_mode()
    def handle(self, session, x):
        states = self.sessions.setdefault(session, [])
        states.append(self.model(x.cuda()))
        return states[-1].sum().item()

    def close(self, session):
        del self.sessions[session]


server = Server(nn.Linear(128, 1024).cuda().eval())
for session in range(30):
    for request in range(4):
        server.handle(session, torch.rand(16, 128))
    if session >= 3:
        server.close(session - 3)
