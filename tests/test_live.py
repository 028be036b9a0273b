"""The page's Python: it builds, and draws what every other Python draws."""

from __future__ import annotations

import gzip
import hashlib
import json
from itertools import islice

import pytest
from bundle import ROOT, builder, demo_bundle
from demo_figure import FIGURE
from geometry import states

from memmodel import figures, live
from memmodel.render_html import table_html
from memmodel.render_svg import svg

LIMIT = 1000  # states of one figure; past that, each knob alone and an even sample
AT_MOST = 5_500_000  # bytes, gzipped, once for the whole book


def request(name: str, **state: str) -> str:
    return json.dumps({"figure": name, "uid": f"mm-{name}", "fixed": {}, "state": state})


def test_an_answer_holds_picture_table_and_words() -> None:
    demo_bundle()
    answer = json.loads(live.draw(request("demo", ranks="2")))
    scene = FIGURE.scene(ranks="2")
    assert answer == {
        "svg": svg(scene, uid="mm-demo", title=FIGURE.title, knobs=FIGURE.defaults()),
        "table": table_html(scene.table, FIGURE.title),
        "status": scene.status,
        "alt": scene.alt,
        "problem": "",
        "state": FIGURE.defaults() | {"ranks": "2"},
    }


def test_a_refused_combination_is_said_in_words() -> None:
    demo_bundle()
    answer = json.loads(live.draw(request("demo", policy="impossible", ranks="16")))
    assert (
        answer["problem"] == answer["status"] == "No such plan: 16 ranks need a policy that exists."
    )
    assert answer["problem"].split()[0] in answer["svg"]


def test_what_the_figure_does_not_know_is_left_out() -> None:
    demo_bundle()
    asked = request("demo", ranks="3", size="9", policy="full", ghost="<script>")
    assert json.loads(live.draw(asked))["state"] == FIGURE.defaults() | {"policy": "full"}


def test_fixed_knobs_are_not_state() -> None:
    demo_bundle()
    asked = {"figure": "demo", "uid": "u", "fixed": {"ranks": "2"}, "state": {"ranks": "64"}}
    answer = json.loads(live.draw(json.dumps(asked)))
    assert "ranks" not in answer["state"]
    assert answer["status"] == FIGURE.scene(ranks="2").status


@pytest.mark.slow
def test_the_page_s_python_draws_the_same_character_for_character() -> None:
    folder = demo_bundle()
    requests = [
        request(name, **state)
        for name in sorted(figures.MODULES)
        for state in states(figures.get(name), LIMIT)
    ]
    there = builder().ask(folder, [("memmodel.live", "draw", r) for r in requests], "--digest")
    differ = [
        asked
        for asked, digest in zip(requests, there, strict=True)
        if hashlib.sha256(live.draw(asked).encode()).hexdigest() != digest
    ]
    for asked in islice(differ, 1):  # one in full, to see what differs
        [answer] = builder().ask(folder, [("memmodel.live", "draw", asked)])
        assert json.loads(answer) == json.loads(live.draw(asked)), asked
    assert not differ
    assert len(requests) >= 2000
    print(f"{len(requests)} states of {len(figures.MODULES)} figures are the same")


@pytest.mark.slow
def test_a_difference_of_one_character_would_be_seen() -> None:
    [digest] = builder().ask(
        demo_bundle(), [("memmodel.live", "draw", request("demo"))], "--digest"
    )
    here = live.draw(request("demo"))
    assert hashlib.sha256(here.encode()).hexdigest() == digest
    assert hashlib.sha256(here.replace("640", "641", 1).encode()).hexdigest() != digest


@pytest.mark.slow
def test_an_unknown_figure_is_an_error_with_its_reason() -> None:
    with pytest.raises(SystemExit, match="figure 'none': known are"):
        builder().ask(demo_bundle(), [("memmodel.live", "draw", request("none"))])


@pytest.mark.slow
def test_what_readers_load_is_small_and_names_no_other_host() -> None:
    folder = demo_bundle()
    sizes = {file.name: len(gzip.compress(file.read_bytes())) for file in folder.iterdir()}
    assert sum(sizes.values()) <= AT_MOST, sizes
    for name in ("live.js", "live.css"):
        assert "http" not in (folder / name).read_text("utf-8")
    lock = (ROOT / "book" / "_live" / "package-lock.json").read_text("utf-8")
    assert "http" not in lock


@pytest.mark.slow
def test_the_same_sources_are_not_built_twice() -> None:
    folder, demo = demo_bundle(), {"demo": ROOT / "tests" / "demo_figure.py"}
    stamp = (folder.parent.parent / "stamp").read_text()
    before = (folder / "runtime.js").stat().st_mtime_ns
    builder().build(ROOT / "_build" / "live-demo", demo)
    same = builder().fingerprint(demo) == stamp  # someone may be editing while this runs
    assert not same or (folder / "runtime.js").stat().st_mtime_ns == before
