"""Jobs: pods until enough of them have succeeded, or too many failed.

Every pod of a Job carries a finalizer until it is counted, so that none is lost between its end and the count.
"""

from datetime import datetime
from typing import Any

from defib.simulate.kinds import metadata
from defib.simulate.store import Change, Object, key_of
from defib.simulate.workloads import pods
from defib.simulate.workloads.controller import Controller
from defib.simulate.workloads.sight import controller_of

JOBS = "jobs.batch"
TRACKING = "batch.kubernetes.io/job-tracking"
_RETRIES = 6


class JobController(Controller):
    name = "job-controller"
    resource = JOBS
    listens = (JOBS, "pods")

    def notice(self, change: Change) -> None:
        stored = change.now.object
        if change.resource == JOBS:
            self.look_at(key_of(stored))
            return
        owner = controller_of(stored)
        if owner and owner["kind"] == "Job":
            self.look_at(f"{stored['metadata']['namespace']}/{owner['name']}")

    def handle(self, key: str) -> None:
        job = self.sight.get(JOBS, key)
        if job is None:
            self._let_go([pod for pod in self.sight.all("pods") if _was_of(pod, key)])
            return
        mine = self.sight.owned(job, "pods")
        if pods.terminating(job):
            self._let_go(mine)
            return
        status = self._counted(job, mine)
        ended = [pod for pod in mine if _succeeded(pod) or _failed(pod)]
        living = [pod for pod in mine if pods.active(pod)]
        if not _over(job):
            if verdict := _verdict(job, status, len(living)):
                status["conditions"] = [self._condition(*verdict)]
                for pod in living:
                    self.hands.delete("pods", pod)
                living = []
            else:
                living = self._supply(job, status, living)
        self._report(job, status, living)
        self._let_go(ended)

    def _counted(self, job: Object, mine: list[Object]) -> dict[str, Any]:
        """Adds what ended since; a pod is counted as long as it carries the finalizer, and then never again."""
        status = dict(job.get("status") or {})
        fresh = [pod for pod in mine if TRACKING in (pod["metadata"].get("finalizers") or ())]
        for name, test in (("succeeded", _succeeded), ("failed", _failed)):
            number = status.get(name, 0) + sum(test(pod) for pod in fresh)
            if number:
                status[name] = number
        return status

    def _supply(self, job: Object, status: dict[str, Any], living: list[Object]) -> list[Object]:
        """The living pods after creating those that are missing, or dismissing those that are too many."""
        wanted = _wanted(job, status, len(living))
        for pod in living[wanted:]:
            self.hands.delete("pods", pod)
        if wanted <= len(living):
            return living[:wanted]
        if pause := self._pause(job, status):
            self.look_after(key_of(job), pause)
            return living
        made = []
        for _ in range(wanted - len(living)):
            pod = pods.from_template("Job", "batch/v1", job, self.timers.toleration_seconds)
            meta, name = pod["metadata"], job["metadata"]["name"]
            meta["labels"] = {
                **meta.get("labels", {}),
                "batch.kubernetes.io/job-name": name,
                "batch.kubernetes.io/controller-uid": job["metadata"]["uid"],
                "job-name": name,
                "controller-uid": job["metadata"]["uid"],
            }
            meta["finalizers"] = [TRACKING]
            made.append(self.hands.create("pods", pod))
        return [*living, *made]

    def _pause(self, job: Object, status: dict[str, Any]) -> float:
        """What is still to wait after the last failure; every further one doubles it."""
        failures = [pod for pod in self.sight.owned(job, "pods") if _failed(pod)]
        number = status.get("failed", 0)
        if not failures or not number:
            return 0.0
        last = max(_ended_at(pod) for pod in failures)
        longest = self.timers.job_backoff_limit_seconds
        pause = min(self.timers.job_backoff_seconds * 2.0 ** (number - 1), longest)
        return float(max(0.0, pause - (self.clock.now() - last).total_seconds()))

    def _report(self, job: Object, status: dict[str, Any], living: list[Object]) -> None:
        numbers = {"active": len(living), "ready": sum(pods.ready(pod) for pod in living)}
        status = {**{k: v for k, v in status.items() if k not in numbers}, **{k: v for k, v in numbers.items() if v}}
        status.setdefault("startTime", metadata.stamp(self.clock.now()))
        if _says(status, "Complete"):
            status.setdefault("completionTime", metadata.stamp(self.clock.now()))
        self.hands.set_status(JOBS, job, status)

    def _condition(self, kind: str, reason: str) -> dict[str, Any]:
        now = metadata.stamp(self.clock.now())
        times = {"lastProbeTime": now, "lastTransitionTime": now}
        return {"type": kind, "status": "True", "reason": reason, **times}

    def _let_go(self, ended: list[Object]) -> None:
        for pod in ended:
            finalizers = pod["metadata"].get("finalizers") or []
            if TRACKING in finalizers:
                kept = [finalizer for finalizer in finalizers if finalizer != TRACKING]
                self.hands.patch("pods", pod, {"metadata": {"finalizers": kept or None}})


def _was_of(pod: Object, job: str) -> bool:
    owner = controller_of(pod)
    return bool(owner and owner["kind"] == "Job" and f"{pod['metadata']['namespace']}/{owner['name']}" == job)


def _succeeded(pod: Object) -> bool:
    return pods.phase(pod) == "Succeeded"


def _failed(pod: Object) -> bool:
    """A pod that is being deleted counts as failed at once: it may never get to say so."""
    return pods.phase(pod) == "Failed" or (pods.terminating(pod) and not _succeeded(pod))


def _ended_at(pod: Object) -> datetime:
    """When its last container ended, as far as anybody knows."""
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    known = [((c.get("state") or {}).get("terminated") or {}).get("finishedAt") for c in containers]
    meta = pod["metadata"]
    times = [time for time in known if time] or [meta.get("deletionTimestamp") or meta["creationTimestamp"]]
    return max(datetime.fromisoformat(time) for time in times)


def _says(status: dict[str, Any], kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in status.get("conditions") or ())


def _over(job: Object) -> bool:
    status = job.get("status") or {}
    return _says(status, "Complete") or _says(status, "Failed")


def _verdict(job: Object, status: dict[str, Any], living: int) -> tuple[str, str] | None:
    spec = job["spec"]
    if status.get("failed", 0) > spec.get("backoffLimit", _RETRIES):
        return "Failed", "BackoffLimitExceeded"
    succeeded, needed = status.get("succeeded", 0), _completions(spec)
    done = succeeded >= needed if needed is not None else succeeded and not living
    return ("Complete", "CompletionsReached") if done else None


def _completions(spec: dict[str, Any]) -> int | None:
    """How many must succeed; with parallelism alone, the pods find out among themselves when all is done."""
    if "completions" in spec:
        return int(spec["completions"])
    return None if "parallelism" in spec else 1


def _wanted(job: Object, status: dict[str, Any], living: int) -> int:
    spec = job["spec"]
    if spec.get("suspend"):
        return 0
    parallelism: int = spec.get("parallelism", 1)
    needed, succeeded = _completions(spec), status.get("succeeded", 0)
    if needed is None:
        return living if succeeded else parallelism
    return int(max(0, min(parallelism, needed - succeeded)))
