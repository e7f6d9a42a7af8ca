# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""What is handed to tc and ip: netem's own work is judged by the self-check."""

import pytest

from benchmarks.wanlab import Direction, Link, netem, symmetric_link


def test_the_limit_has_room_for_what_is_on_its_way_and_for_the_queue() -> None:
    link = symmetric_link(rtt_ms=30, rate_mbit=1000)
    command = " ".join(netem.qdisc_command(0, link, "to_compute"))
    # 15 ms and 30 ms of packets that take 1538 bytes on the wire.
    assert command == (
        "tc qdisc replace dev link0 root netem limit 3658 delay 15ms rate 1000000000bit 24"
    )


def test_a_queue_may_be_counted_in_packets() -> None:
    link = symmetric_link(rate_mbit=1000, queue_packets=50)
    command = netem.qdisc_command(0, link, "to_compute")
    assert command[command.index("limit") + 1] == "50"


def test_without_a_rate_the_limit_is_out_of_reach() -> None:
    command = netem.qdisc_command(3, symmetric_link(rtt_ms=30), "to_storage")
    assert command[4:] == ["link3", "root", "netem", "limit", "1000000", "delay", "15ms"]


def test_a_cut_is_a_loss_of_everything() -> None:
    link = netem.changed(symmetric_link(loss_percent=0.1), "to_compute", {"cut": True})
    assert netem.qdisc_command(0, link, "to_compute")[-2:] == ["loss", "100%"]
    assert netem.qdisc_command(0, link, "to_storage")[-2:] == ["loss", "0.1%"]


def test_super_packets_are_off_where_packets_are_lost() -> None:
    lossy = netem.end_commands(0, "10.77.0.1/30", symmetric_link(loss_percent=0.1))
    assert lossy[0][-2:] == ["gso_max_segs", "1"]
    assert "gso_max_segs" not in netem.end_commands(0, "10.77.0.1/30", symmetric_link())[0]


@pytest.mark.parametrize(
    ("direction", "reason"),
    [
        (Direction(delay_ms=2, jitter_ms=1), "order"),
        (Direction(reorder_percent=1), "at once"),
        (Direction(stalled=True), "stand still"),
    ],
)
def test_what_netem_cannot_do_is_left_to_the_emulator(direction: Direction, reason: str) -> None:
    assert reason in (netem.why_not([Link(), Link(to_storage=direction)]) or "")
