"""What happens to the servers of a stream that goes on: the broker, its topics, PostgreSQL, S3, the disk and the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from headrace.local.servers.broker import create_topics
from headrace.local.servers.server import LocalServer
from headrace.local.servers.topics import add_partitions
from tests.broker.harness import delete_records, delete_topic
from tests.faults.delivered import remember
from tests.faults.lives import Life, Process
from tests.faults.pipeline import PARTITIONS
from tests.faults.s3_proxy import S3Proxy, Weather
from tests.faults.servers import Servers
from tests.faults.small_disk import SmallDisk
from tests.faults.stream import Order
from tests.faults.traffic import produce, produce_in_transactions
from tests.faults.verdict import Verdict

AWAY_S = 60.0
DAY_MS = 86_400_000


def settled(life: Life, process: Process, since: float) -> None:
    """Wait until a process has caught up, by itself: nobody starts it again."""
    assert process.catches_up(), f"it ended: {process.said()[-4000:]}"
    life.recoveries.append(time.monotonic() - since)
    life.times += 1
    life.say(f"{life.times:4} caught up {life.recoveries[-1]:.1f} s after it was over")


def away(life: Life, server: LocalServer, random: Random, times: int, away_s: float = AWAY_S) -> Verdict:
    """Kill a server while the stream works, and bring it back after a minute; for some of it the traffic goes on."""
    process = life.running()
    for _ in range(times):
        life.traffic()
        time.sleep(random.uniform(0, 2))
        server.kill()
        time.sleep(away_s)
        server.start().wait_ready()
        life.traffic()
        settled(life, process, time.monotonic())
    process.end()
    return life.drained()


def widened(life: Life, random: Random, times: int) -> Verdict:
    """Add partitions to a topic while the stream works."""
    process = life.running()
    for _ in range(times):
        life.traffic()
        time.sleep(random.uniform(0, 1))
        life.partitions += 1
        add_partitions(life.place.bootstrap, f"{life.place.prefix}-readings", life.partitions)
        life.traffic()
        settled(life, process, time.monotonic())
    process.end()
    life.traffic()
    return life.drained()


def aborted(life: Life, random: Random, times: int) -> Verdict:
    """Produce in transactions, of which many are aborted, until so many were."""
    process = life.running()
    while life.times < times:
        count = produce_in_transactions(life.place.bootstrap, life.place.prefix, life.portion(), random)
        settled(life, process, time.monotonic())
        life.times += count - 1
    process.end()
    return life.drained()


def created_anew(life: Life, servers: Servers) -> Verdict:
    """Delete a topic and create it again, with other records: the stream refuses it, and takes none of them."""
    life.traffic()
    process = life.running()
    process.end()
    topic, gone = f"{life.place.prefix}-readings", life.place.folder / "gone"
    remember(gone, life.place.bootstrap, [topic])
    delete_topic(servers.broker, topic)
    create_topics(life.place.bootstrap, {topic: PARTITIONS["readings"]}, any_timestamp=True)
    produce(life.place.bootstrap, life.place.prefix, [s for s in life.portion(20) if s.topic == "readings"])
    process = life.next()
    process.go(Order())
    assert process.reaches("was deleted and created again"), process.said()[-4000:]
    life.say(process.said().rpartition("failed ")[2].strip()[:300])
    process.end()
    life.times += 1
    return life.drained(Order(judge_only=True, gone=str(gone)))


def overtaken(life: Life, servers: Servers, random: Random, times: int) -> Verdict:
    """Have Kafka delete records that the log lacks: it is refused, until a person accepts the gap; then the rest is read."""
    gone, topic = life.place.folder / "gone", f"{life.place.prefix}-readings"
    order = Order()
    for _ in range(times):
        life.traffic()
        process = life.next()
        process.go(order)
        assert process.reaches("caught up"), process.said()[-4000:]
        process.end()
        kept = remember(gone, life.place.bootstrap, [topic], gone if gone.exists() else None)
        life.traffic(60)
        before = {p: end + random.randrange(1, 8) for p, end in kept[topic].items()}
        delete_records(servers.broker, topic, before)
        process = life.next()
        process.go(Order())
        assert process.reaches("Kafka has deleted records"), process.said()[-4000:]
        life.say(process.said().rpartition("failed ")[2].strip()[:300])
        process.end()
        order, life.times = Order(accept_gaps=True), life.times + 1
    return life.drained(Order(accept_gaps=True, drain=True, gone=str(gone)))


def bad_weather(life: Life, proxy: S3Proxy, begins: Callable[[Weather], None], times: int) -> Verdict:
    """Let S3 have bad days while the stream works, until so many requests were struck."""
    process = life.running()
    while proxy.weather.disturbed < times:
        begins(proxy.weather)
        life.traffic()
        time.sleep(10)
        proxy.weather.clear()
        life.traffic()
        settled(life, process, time.monotonic())
        life.times = proxy.weather.disturbed
        life.say(f"{life.times} requests struck")
    process.end()
    return life.drained()


def full(life: Life, disk: SmallDisk, random: Random, times: int) -> Verdict:
    """Fill the disk while the stream works, so that a write stops in its middle; free it after some seconds."""
    process = life.running()
    for _ in range(times):
        disk.fill(spare_bytes=random.choice([0, 4_096, 16_384, 65_536]))
        life.traffic()
        time.sleep(random.uniform(3, 8))
        disk.free()
        life.traffic()
        settled(life, process, time.monotonic())
    process.end()
    return life.drained()


def clock_moved(life: Life, random: Random, times: int) -> Verdict:
    """Kill processes whose clocks are, in turn, a day ahead and right."""
    for number in range(times):
        life.traffic()
        life.killed(Order(after_s=random.uniform(3, 8), ahead_ms=DAY_MS * (number % 2)))
    life.times = times  # the clock was set, whatever the process had done when it was killed
    life.traffic()
    return life.drained()
