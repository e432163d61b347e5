"""The page of alerts, and its silences, by Streamlit's own test driver over a server of docs/api.md."""

from __future__ import annotations

import pytest

from indoubt.app.components.time_text import clock_time, zone_named
from indoubt.app.dialogs import silence_dialog
from indoubt.lifecycle.rows.alerts import AlertRow
from indoubt.lifecycle.rows.row_json import read_row
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_attention_rows import alert, attention, silence
from tests.unit.app.contract_rows import now_ms
from tests.unit.app.page_driver import HOSTILE, button, knowing, labels, opened, press, said

pytestmark = pytest.mark.slow


answers = knowing(lambda: Answers(alerts=[alert()]))


def test_an_alert_is_shown_with_its_severity_its_rule_and_its_evidence(answers):
    answers.alerts.append(alert("A1", state="pending", severity="warning", name="timeout near", summary="4 s are left"))
    page = opened("alerts")
    for text in ("1 firing, 1 pending", "critical, firing", "ip-count-0-1 was decided and is not committed",
                 "A2 commit overdue", "decision 88213 lists it", "pipeline ip-count", "warning, pending", "4 s are left",
                 "No receiver is set"):  # fmt: skip
        assert text in said(page), text
    assert labels(page).count("Silence …") == 2


def test_an_alert_that_is_not_found_any_more_says_so(answers):
    assert "not found any more" not in said(opened("alerts"))
    answers.alerts[0]["absent_at_ms"] = now_ms() - 3_000
    assert "not found any more for" in said(opened("alerts"))


def test_alerts_about_one_application_are_one_card_with_its_remedy(answers):
    about = alert("A4", key="A4|orders-2", severity="warning", name="blocked consumers", summary="billing waits")
    answers.alerts += [about, alert("A6", key="A6|x", group="sources", summary="a source is down", path="/collector")]
    transactions = ["kafka:ip-count-0-1:4001:7"]
    answers.attention = [attention("transactions", badge="commit it", remedy="commit", keys=transactions)]
    page = opened("alerts")
    assert said(page).count("<article") == 2
    assert said(page).count('<b class="name">application ip-count</b>') == 1
    assert labels(page).count("Silence …") == 3
    assert labels(page).count("Commit …") == 1
    assert 'href="/collector" target="_self" class="press"' in said(page), (
        "what no order ends has its page as the remedy"
    )


def test_the_remedy_of_another_application_is_not_offered(answers):
    labels_of_it = {"pipeline": "billing-export", "partition": "orders-2"}
    answers.alerts = [alert("A4", group="application billing-export", labels=labels_of_it)]
    answers.attention = [attention("transactions", remedy="commit", keys=["kafka:ip-count-0-1:4001:7"])]
    page = opened("alerts")
    assert "Commit …" not in labels(page)
    assert '<b class="name">application billing-export</b>' in said(page)


def test_a_read_only_collector_takes_silences_and_no_orders(answers):
    answers.read_only = True
    answers.attention = [attention("transactions", remedy="commit", keys=["kafka:ip-count-0-1:4001:7"])]
    page = opened("alerts")
    assert not button(page, "Silence …").disabled
    assert button(page, "Commit …").disabled


def test_what_is_resolved_stands_below_and_needs_nobody(answers):
    answers.alerts[0] |= {"state": "resolved"}
    page = opened("alerts")
    assert "No alert is firing or pending." in said(page)
    assert "Resolved" in said(page)
    assert "Silence …" not in labels(page)


def test_resolved_alerts_are_paged_by_the_collector_and_the_address_has_the_page(answers):
    resolved = [alert(key=f"A2|{number}", state="resolved", summary=f"alert number {number}.") for number in range(120)]
    answers.alerts += resolved
    page = opened("alerts")
    assert "20 alerts, 100 older behind them" in said(page)
    page = press(page, "Older")
    assert ("alert number 19." in said(page), "alert number 20." in said(page)) == (False, True)
    assert "alert number 69." in said(opened("alerts", after="50"))
    page = press(page, "Newest")
    assert "alert number 0." in said(page)
    assert "after" not in page.query_params


def test_while_none_is_resolved_the_page_says_so(answers):
    page = opened("alerts")
    assert "No alert has been resolved yet." in said(page)
    assert "Older" not in labels(page)


def test_of_very_many_the_most_urgent_are_shown_and_the_others_counted(answers):
    answers.alerts = [alert(key=f"A2|{number}", summary=f"alert number {number}.") for number in range(57)]
    answers.alerts += [alert(key=f"A1|{number}", state="pending") for number in range(3)]
    answers.silences, answers.alerts[0]["silenced_by"] = [silence()], 1
    page = opened("alerts")
    assert "57 firing, 3 pending, 1 of those shown silenced" in said(page)
    assert "alert number 49." in said(page)
    assert "alert number 50." not in said(page)
    assert "10 less urgent alerts not shown" in said(page)


def test_how_each_receiver_stands(answers):
    answers.receivers = [
        {"receiver": "slack", "waiting": 0, "oldest_at_ms": None, "given_up": 0, "error": ""},
        {"receiver": "webhook", "waiting": 3, "oldest_at_ms": now_ms() - 9000, "given_up": 1, "error": "HTTP 503"},
    ]
    page = opened("alerts")
    for text in ("slack", "up", "webhook", "failing", "HTTP 503"):
        assert text in said(page), text
    assert "No receiver is set" not in said(page)


def test_a_silence_takes_a_reason_and_what_is_chosen_and_says_its_end(answers):
    page = press(opened("alerts"), "Silence …")
    assert "stay visible, but send no notification" in said(page)
    assert page.radio(key="silence-form-what").value == "this transaction: ip-count-0-1 of ip-count"
    zone = zone_named("UTC")
    until = {f"{clock_time(now_ms() + 3_600_000 + ms, zone)[:5]}" for ms in (0, -60_000)}
    (length,) = page.button_group(key="silence-form-length")
    # In the last hour of a day the end is tomorrow: the date stands before the time.
    assert " · until " in length.options[0]
    assert length.options[0][-5:] in until
    page = press(page, "Silence")
    assert "Give a reason of at least 3 characters" in said(page)
    assert answers.silences == []
    page.text_input(key="silence-form-reason").set_value("being looked into")
    page.radio(key="silence-form-what").set_value("“commit overdue” of ip-count")
    page = press(page, "Silence")
    (made,) = answers.silences
    assert (made["matchers"], made["reason"]) == ({"rule": "A2", "pipeline": "ip-count"}, "being looked into")
    assert 3_500_000 < made["ends_at_ms"] - now_ms() <= 3_600_000
    page = page.run()
    for text in ("1 of them silenced", "silenced until", "by anna: being looked into", "pipeline=ip-count"):
        assert text in said(page), text
    assert "Silence …" not in labels(page)


@pytest.mark.parametrize(
    ("about", "offered"),
    [
        (
            {"pipeline": "ip-count", "batch": "41", "transaction": "ip-count-0-1"},
            {
                "this batch: 41 of ip-count": {"pipeline": "ip-count", "batch": "41"},
                "“commit overdue” of ip-count": {"rule": "A2", "pipeline": "ip-count"},
                "all of ip-count": {"pipeline": "ip-count"},
            },
        ),
        (
            {"partition": "orders-2"},
            {
                "this partition: orders-2": {"partition": "orders-2"},
                "“commit overdue”, whatever it is about": {"rule": "A2"},
            },
        ),
    ],
)
def test_a_silence_is_offered_from_the_least_to_all_of_an_application(about, offered):
    labels = {"rule": "A2", "severity": "critical", **about}
    found = silence_dialog.choices(read_row(AlertRow, alert(labels=labels)))
    assert list(found.items()) == list(offered.items())


def test_a_silence_is_ended_with_a_reason(answers):
    answers.silences, answers.alerts[0]["silenced_by"] = [silence()], 1
    page = press(opened("alerts"), "End …")
    page.text_input(key="silence-form-reason").set_value("the move is done")
    page = press(page, "End silence").run()
    assert answers.silences[0]["state"] == "ended"
    assert "Silence …" in labels(page)
    assert "its broker is being moved" not in said(page)


def test_a_refusal_of_the_collector_stays_in_the_dialog(answers):
    answers.silences, answers.alerts[0]["silenced_by"] = [silence()], 1
    page = press(opened("alerts"), "End …")
    answers.silences.clear()
    page.text_input(key="silence-form-reason").set_value("the move is done")
    page = press(page, "End silence")
    assert "there is no silence 1" in said(page)


def test_a_viewer_sees_the_alerts_and_may_not_silence_them(answers):
    answers.role = "viewer"
    page = opened("alerts")
    assert "critical, firing" in said(page)
    assert button(page, "Silence …").disabled


def test_text_from_outside_stays_text(answers):
    answers.alerts[0] |= {"summary": HOSTILE, "labels": {"rule": "A2", "pipeline": HOSTILE}}
    answers.silences = [silence(reason=HOSTILE, author=HOSTILE, matchers={"pipeline": HOSTILE})]
    page = press(opened("alerts"), "Silence …")
    assert "<img" not in said(page)
    assert "&lt;img" in said(page)
