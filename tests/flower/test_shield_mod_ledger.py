"""The mod keeps the site's budget and ledger: once one is used up or the other is unreliable, nothing is sent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from flower_site import DP, SPARSE, Site, app_of, arrays_in, order, record, refused, trained
from flwr.app import Context, Message, MetricRecord, RecordDict

from fedveil.certificates import gaussian_epsilon
from fedveil.flower import mod as words
from fedveil.flower import shield_mod

# The budget.


def test_no_more_messages_leave_than_the_budget_has(site: Site) -> None:
    site.write(DP + "[budget]\nmessages = 3\n")
    worked = []

    def reply(request: Message) -> RecordDict:
        worked.append(1)
        return RecordDict({"arrays": record(trained(request))})

    app = app_of(shield_mod(), reply=reply)
    replies = [app(order(), site.context) for _ in range(6)]
    assert [answer.has_error() for answer in replies] == [False] * 3 + [True] * 3
    for answer in replies[3:]:
        refused(answer, words.NO_BUDGET)
    assert len(worked) == 3  # the app does no work in vain
    assert len(site.lines) == 3
    refused(app(order("evaluate"), site.context), words.NO_BUDGET)
    # Another run of the same node, or a new node with this ledger, has no budget either.
    site.context = Context(99, 1, site.context.node_config, RecordDict(), {})
    refused(app(order(), site.context), words.NO_BUDGET)


def test_epsilon_is_kept_when_the_noise_changes(site: Site) -> None:
    budget = "[budget]\nepsilon = 3.0\ndelta = 1e-5\n"
    app = app_of(shield_mod())
    site.write('shield = {kind = "dp-gaussian", clip = 1.0, sigma = 4.0}\n' + budget)
    assert not app(order(), site.context).has_error()
    site.write('shield = {kind = "dp-gaussian", clip = 1.0, sigma = 8.0}\n' + budget)
    sent = 1
    while not app(order(), site.context).has_error():
        sent += 1
        assert sent < 50
    mu = np.sqrt(0.5**2 + (sent - 1) * 0.25**2)
    assert gaussian_epsilon(1 / mu, 1e-5) <= 3.0 < gaussian_epsilon(1 / np.sqrt(mu**2 + 0.25**2), 1e-5)
    assert json.loads(site.lines[-1])["totals"]["epsilon"] == pytest.approx(gaussian_epsilon(1 / mu, 1e-5))
    assert len({json.loads(line)["policy"] for line in site.lines}) == 2  # the change is written down


def test_what_left_without_a_guarantee_counts_for_ever(site: Site) -> None:
    site.write(SPARSE)
    app = app_of(shield_mod())
    assert not app(order(), site.context).has_error()
    site.write(DP + "[budget]\nepsilon = 100.0\ndelta = 1e-5\n")
    refused(app(order(), site.context), words.NO_BUDGET)


def test_evaluations_have_a_budget_of_their_own_if_the_policy_says_so(site: Site) -> None:
    site.write(DP + "[budget]\nmessages = 1\nevaluations = 2\n")
    quiet = app_of(shield_mod(), reply=lambda _: RecordDict({"metrics": MetricRecord({"num-examples": 5})}))
    assert not app_of(shield_mod())(order(), site.context).has_error()
    assert [quiet(order("evaluate"), site.context).has_error() for _ in range(3)] == [False, False, True]


def test_a_policy_takes_effect_at_the_next_message(site: Site) -> None:
    app = app_of(shield_mod())
    site.write('shield = {kind = "none"}\n')
    first = arrays_in(app(order(), site.context))["0.weight"]
    np.testing.assert_allclose(first, trained(order())["0.weight"], rtol=1e-6)
    site.write(DP)
    second = arrays_in(app(order(), site.context))["0.weight"]
    assert np.abs(second - first).max() > 0.5
    first, second = (json.loads(line) for line in site.lines)
    assert first["policy"] != second["policy"]
    assert first["shield"].startswith("Identity")
    assert second["shield"].startswith("DPGaussian")


# The ledger.


def test_the_entry_is_on_the_disk_when_the_reply_leaves(site: Site) -> None:
    request = order()
    app_of(shield_mod())(request, site.context)
    entry = json.loads(site.lines[0])
    assert (entry["run"], entry["message"], entry["kind"]) == (11, request.metadata.message_id, "update")
    assert entry["costs"] == [{"mechanism": "gaussian", "amount": 0.5}]
    assert entry["told"] == ["num-examples"]
    assert json.loads(site.head.read_text()) == {"count": 1, "hash": entry["hash"]}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda site: site.ledger.write_text(site.ledger.read_text().replace('"updates":2', '"updates":1')),
        lambda site: site.ledger.write_text("\n".join(site.lines[:1]) + "\n"),
        lambda site: site.ledger.write_text("\n".join(reversed(site.lines)) + "\n"),
        lambda site: site.ledger.unlink(),
        lambda site: site.head.unlink(),
        lambda site: site.head.write_text('{"count":0,"hash":"' + "0" * 64 + '"}\n'),
        lambda site: site.head.write_text("[]"),
        lambda site: (site.ledger.unlink(), site.head.unlink()),
        lambda site: (site.ledger.unlink(), site.ledger.mkdir()),
    ],
    ids=["edited", "cut", "reordered", "gone", "headless", "set back", "no head", "both gone", "a folder"],
)
def test_with_a_ledger_that_was_changed_nothing_is_sent(site: Site, spoil: Callable[[Site], None]) -> None:
    app = app_of(shield_mod())
    for _ in range(2):
        assert not app(order(), site.context).has_error()
    spoil(site)
    refused(app(order(), site.context), words.NO_LEDGER)
    refused(app(order("evaluate"), site.context), words.NO_LEDGER)


def test_a_ledger_set_back_as_a_whole_is_noticed_while_the_node_lives(site: Site) -> None:
    app = app_of(shield_mod())
    app(order(), site.context)
    old = site.ledger.read_bytes(), site.head.read_bytes()
    app(order(), site.context)
    site.ledger.write_bytes(old[0])
    site.head.write_bytes(old[1])
    refused(app(order(), site.context), words.NO_LEDGER)
    # A node that remembers nothing cannot know; the documentation says so.
    site.context.state = RecordDict()
    assert not app(order(), site.context).has_error()


def test_a_ledger_that_is_changed_while_the_app_works_is_noticed(site: Site) -> None:
    app_of(shield_mod())(order(), site.context)

    def meanwhile(request: Message) -> RecordDict:
        site.ledger.write_text(site.ledger.read_text().replace("0.5", "0.4"))
        return RecordDict({"arrays": record(trained(request))})

    refused(app_of(shield_mod(), reply=meanwhile)(order(), site.context), words.NO_LEDGER)


def test_an_app_cannot_make_the_node_forget_its_ledger(site: Site) -> None:
    app_of(shield_mod())(order(), site.context)

    def forgets(request: Message) -> RecordDict:
        site.context.state.clear()
        site.ledger.unlink()
        site.head.unlink()
        return RecordDict({"arrays": record(trained(request))})

    refused(app_of(shield_mod(), reply=forgets)(order(), site.context), words.NO_LEDGER)


def test_two_mods_in_one_app_are_refused_at_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    refused(app_of(shield_mod(), shield_mod())(order(), site.context), words.NO_LEDGER)
    assert any("two mods" in entry.getMessage() for entry in caplog.records)
    assert site.lines == []
    assert not app_of(shield_mod())(order(), site.context).has_error()  # and the ledger is free again


HOLD = """
import sys
from fedveil.flower.ledger import Ledger
with Ledger(sys.argv[1]).claimed():
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_ledger_that_another_process_holds_is_waited_for_and_no_longer(site: Site) -> None:
    command = [sys.executable, "-c", HOLD, str(site.ledger)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        refused(app_of(shield_mod(wait=0.2))(order(), site.context), words.NO_LEDGER)
        other.communicate("go\n", timeout=30)
    assert not app_of(shield_mod())(order(), site.context).has_error()


def test_where_the_ledger_cannot_be_written_nothing_is_sent(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    site.write(DP + 'ledger = "file/ledger.jsonl"\n')
    worked = []
    app = app_of(shield_mod(), reply=lambda request: worked.append(1) or RecordDict())
    refused(app(order(), site.context), words.NO_LEDGER)
    assert not worked


def test_on_a_full_disk_nothing_is_sent(site: Site) -> None:
    resource = pytest.importorskip("resource")
    app = app_of(shield_mod())
    assert not app(order(), site.context).has_error()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (site.ledger.stat().st_size + 100, before[1]))
    try:
        reply = app(order(), site.context)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    refused(reply, words.NO_LEDGER)
    # The half-written entry does not count, and the next message overwrites it.
    assert not app(order(), site.context).has_error()
    assert [json.loads(line)["number"] for line in site.lines] == [1, 2]
