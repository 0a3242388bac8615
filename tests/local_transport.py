"""A transport whose workers are threads of this process, which tests can disconnect."""

import pickle
import queue
from concurrent.futures import ThreadPoolExecutor

from lmma.evaluation import EvaluationOptions
from lmma.evaluation.cluster.messages import Transport, drain
from lmma.evaluation.cluster.worker_host import end_host, serve
from lmma.evaluation.objective import dumps


class LocalTransport(Transport):
    """Has messages served in threads, as many at a time as each worker has slots."""

    name = "Local"

    def __init__(self, *names, slots=1):
        self.names = list(names)
        self.slots = slots
        self.threads = {}
        self.messages = []  # (worker, message) in the order in which they were sent
        self.inbox = queue.SimpleQueue()

    def workers(self):
        return dict.fromkeys(self.names, self.slots)

    def send(self, request, worker, message):
        self.messages.append((worker, message))
        thread = self.threads.setdefault(worker, ThreadPoolExecutor(self.slots))
        served = thread.submit(serve, message)
        served.add_done_callback(lambda done: self.inbox.put((request, worker, done.result())))

    def replies(self, seconds):
        found = drain(self.inbox, seconds)
        return [(request, reply if worker in self.names else None) for request, worker, reply in found]

    def close(self, tokens):
        for _, message in self.messages:  # of lost workers too: they live in this process
            end_host(pickle.loads(message).token)
        for thread in self.threads.values():
            thread.shutdown()
        self.threads.clear()


class OnTransport:
    """What ``workers=`` takes: the workers of a transport, through a driver of the given class."""

    def __init__(self, transport, driver_class, **further):
        self.transport, self.driver_class, self.further = transport, driver_class, further

    def evaluator(self, fun, args=(), on_error="worst", **options):
        objective, options = dumps((fun, args)), EvaluationOptions(on_error, **options)
        self.evaluate = self.driver_class(objective, options, self.transport, **self.further)
        return self.evaluate
