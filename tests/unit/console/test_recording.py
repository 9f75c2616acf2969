"""The file of a dump: what is read from it is what was written, and whatever is wrong with one is told in a line."""

import gzip
import stat
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from defib.console.recording import Decided, Recorder, header_of, read_recording
from defib.console.session import NotDone
from defib.console.thorough import PodsByNode
from defib.decide.rules import Rules
from defib.model.cluster import Blindness, Cluster, Missing, Served, Unread
from defib.model.failure import Failure
from defib.model.health_check import KindRef
from defib.model.meta import Meta, Unstructured
from defib.model.pod import Pod, PodSpec, pods_on
from tests.builders import SECOND, T0, a_cluster, a_node

FOO = KindRef("test/v1", "Foo")
POD = Pod(metadata=Meta(name="p", namespace="ns", uid="u"), spec=PodSpec(node_name="n1"))


def write(path: Path, *clusters: Cluster, pods: PodsByNode | None = None) -> Path:
    with Recorder(path) as recorder:
        recorder.begin(header_of(Rules(), T0, ("pods could not be read",)), pods)
        for cluster in clusters:
            recorder.frame(cluster, Decided())
    return path


def edit(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content))
    return path


def lines_of(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


def full() -> Cluster:
    """With something in every part that a look can fill."""
    item = Unstructured(metadata=Meta(name="x", namespace="ns", uid="1"), api_version="test/v1", kind="Foo", data=[1])
    return Cluster(
        now=T0,
        nodes={"n1": a_node("n1")},
        others={"foos": {"ns/x": item}, pods_on("n1"): {"ns/p": POD}, "empty": {}},
        blind=(Blindness("foos", T0, "why"),),
        absent={"bars": "no"},
        unread=(Unread("nodes", "n2", "odd"),),
        kinds={FOO: Served("foos", namespaced=True), KindRef("v1", "Bar"): Missing("")},
        doubts=("one",),
        failures={"k": Failure(why="w", times=2, again_in=timedelta(seconds=1.5))},
        claims={"ns/c": frozenset({"ReadWriteOnce", "ReadOnlyMany"})},
        server=(1, 34),
    )


def test_a_look_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = write(tmp_path / "d", full(), pods={"n1": (POD,)})
    read = read_recording(path)
    assert read.last == full()
    assert read.pods == {"n1": (POD,)}
    assert read.header.unknown == ("pods could not be read",)


def test_a_later_frame_holds_only_what_has_changed(tmp_path: Path) -> None:
    before = a_cluster(a_node("n1"), a_node("n2"), a_node("n3"))
    after = a_cluster(a_node("n1"), a_node("n2", ready="False"), now=T0 + SECOND)
    path = write(tmp_path / "d", before, after, after)
    assert [scene.cluster for scene in read_recording(path).scenes] == [before, after, after]
    second, third = lines_of(path)[2:4]
    assert (b'"n2"' in second, b'"name":"n1"' in second, b'"n3"' in second) == (True, False, True)
    assert b"put" not in third


def test_a_collection_that_is_gone_is_gone(tmp_path: Path) -> None:
    after = msgspec.structs.replace(full(), others={})
    assert read_recording(write(tmp_path / "d", full(), after)).last == after


def test_pods_that_may_not_be_read_are_not_the_same_as_none(tmp_path: Path) -> None:
    assert read_recording(write(tmp_path / "d", full())).pods is None
    assert read_recording(write(tmp_path / "d", full(), pods={})).pods == {}


def test_nobody_else_on_the_machine_may_read_it_and_nothing_unfinished_has_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "d", full())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    unfinished = tmp_path / "e"
    with pytest.raises(KeyError), Recorder(unfinished):
        raise KeyError
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotDone, match="no/d cannot be written: No such file or directory"):
        write(tmp_path / "no" / "d", full())


def refusal(path: Path) -> str:
    with pytest.raises(NotDone) as caught:
        read_recording(path)
    return str(caught.value).replace(str(path), "FILE")


def test_what_is_no_dump_is_told_as_that(tmp_path: Path) -> None:
    path = tmp_path / "d"
    assert refusal(path) == "FILE cannot be read: No such file or directory"
    assert refusal(tmp_path).startswith("FILE cannot be read: Is a directory")
    path.write_bytes(b"")
    assert refusal(path) == "FILE is empty; make one with: defib dump FILE.json.gz"
    path.write_bytes(b"kind: List")
    assert refusal(path) == (
        "FILE is not a dump of Defib (it is not packed with gzip); make one with: defib dump FILE.json.gz"
    )
    for content in (b"hello\n", b'{"a": 1}\n', b"[]\n", b""):
        assert refusal(edit(path, content)) == "FILE is not a dump of Defib; make one with: defib dump FILE.json.gz"


def test_half_a_file_is_told_wherever_it_was_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "d", full(), full())
    lines, packed = lines_of(path), path.read_bytes()
    assert refusal(edit(path, b"".join(lines[:-1]))) == (
        "FILE is only a part of a dump: it ends after 2 frames; copy it again, or make it again"
    )
    assert refusal(edit(path, b"".join(lines[:2])[:-9])) == (
        "FILE is only a part of a dump: it ends in the middle of line 2; copy it again, or make it again"
    )
    for length in range(2, len(packed) - 1, 97):
        path.write_bytes(packed[:length])
        assert "make" in refusal(path)


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "d", full())
    lines = lines_of(path)
    assert refusal(edit(path, lines[0] + b'{"line":"frame","now":1}\n')).startswith("FILE is damaged: line 2: ")
    assert refusal(edit(path, lines[0] + lines[0])).startswith("FILE is damaged: line 2 is not what belongs there")
    bad = lines[1].replace(b'"unschedulable":', b'"x":').replace(b'"name":"n1"', b'"name":7', 1)
    assert refusal(edit(path, lines[0] + bad)).startswith("FILE is damaged: line 2, nodes: ")
    packed = bytearray(gzip.compress(b"".join(lines)))
    packed[len(packed) // 2] ^= 0xFF
    path.write_bytes(bytes(packed))
    assert "is damaged" in refusal(path) or "part of a dump" in refusal(path)


def test_a_dump_of_another_format_says_which_version_reads_it(tmp_path: Path) -> None:
    path = write(tmp_path / "d", full())
    header = lines_of(path)[0].replace(b'"format":1', b'"format":9').replace(b'"defib":"0.1.0"', b'"defib":"4.0.0"')
    assert refusal(edit(path, header)) == (
        "FILE was made by Defib 4.0.0 in format 9, and this is Defib 0.1.0, which reads format 1: use Defib 4.0.0 for it"
    )


def test_a_file_or_link_that_somebody_has_put_there_before_is_not_written_into(tmp_path: Path) -> None:
    target, path = tmp_path / "of-somebody-else", tmp_path / "dump.json.gz"
    target.write_text("theirs")
    (tmp_path / "dump.json.gz.partial").symlink_to(target)
    write(path, full())
    assert target.read_text() == "theirs"
    assert not path.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_was_left_open_to_all_is_not_used_again(tmp_path: Path) -> None:
    path = tmp_path / "dump.json.gz"
    (left := tmp_path / "dump.json.gz.partial").touch()
    left.chmod(0o666)
    write(path, full())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
