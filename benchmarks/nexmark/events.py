"""Events of an auction site: of fifty, one is a person, three are auctions and 46 are bids.

Proportions, identities, hot keys, prices and life times are those of Apache Beam's generator
(`sdk.nexmark.sources.generator`) with its default settings. An event takes one millisecond of event time; texts that no
query reads are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import numpy as np

from benchmarks.described.topics import Fill, Record

EPOCH, PERSONS, AUCTIONS = 50, 1, 3
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1_000, 10, 5
HOT = 100  # one identity of so many is hot
ACTIVE_PERSONS, AUCTIONS_IN_FLIGHT, LEAD = 1_000, 100, 10
BASE_MS = 1_780_000_080_000
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
CHANNELS = 10_000
SITE = "https://www.nexmark.com"
PARTITIONS = 2


def persons(events: int) -> Iterator[Record]:
    """New persons, one in each epoch."""
    rng = np.random.default_rng(11)
    for number in range(0, events, EPOCH):
        person = FIRST_ID + number // EPOCH
        name = f"{_one_of(rng, FIRST_NAMES)} {_one_of(rng, LAST_NAMES)}"
        city, state = _one_of(rng, CITIES), _one_of(rng, STATES)
        yield _record(person, {"name": name, "city": city, "state": state}, number)


def auctions(events: int) -> Iterator[Record]:
    """New auctions, three in each epoch, after its person."""
    rng = np.random.default_rng(12)
    for number in range(events):
        place = number % EPOCH - PERSONS
        if not 0 <= place < AUCTIONS:
            continue
        last = number // EPOCH
        hot = rng.integers(4) > 0
        seller = last // HOT * HOT if hot else _next_person(rng, last)
        in_flight = AUCTIONS_IN_FLIGHT * EPOCH // AUCTIONS
        first = _price(rng)
        auction = {
            "item_name": f"item {rng.integers(1_000)}",
            "initial_bid": first,
            "reserve": first + _price(rng),
            "expires": BASE_MS + number + 1 + int(rng.integers(in_flight * 2)),
            "seller": FIRST_ID + seller,
            "category": FIRST_CATEGORY + int(rng.integers(CATEGORIES)),
        }
        yield _record(FIRST_ID + last * AUCTIONS + place, auction, number)


def bids(events: int) -> Iterator[Record]:
    """Bids, 46 in each epoch, after its auctions."""
    rng = np.random.default_rng(13)
    for number in range(events):
        if number % EPOCH < PERSONS + AUCTIONS:
            continue
        person, auction = number // EPOCH, number // EPOCH * AUCTIONS + AUCTIONS - 1
        hot_auction, hot_bidder = rng.integers(2) > 0, rng.integers(4) > 0
        channel, url = _channel(rng)
        bid = {
            "auction": FIRST_ID + (auction // HOT * HOT if hot_auction else _next_auction(rng, auction)),
            "price": _price(rng),
            "channel": channel,
            "url": url,
            "extra": "".join(map(chr, rng.integers(97, 123, 12))),
        }
        bidder = FIRST_ID + (person // HOT * HOT + 1 if hot_bidder else _next_person(rng, person))
        yield _record(bidder, bid, number)


FILLS: Mapping[str, Fill] = {"person": persons, "auction": auctions, "bid": bids}


def _record(identity: int, value: Mapping[str, object], number: int) -> Record:
    return Record(identity % PARTITIONS, json.dumps({"id": identity}), json.dumps(value), BASE_MS + number)


def _one_of(rng: np.random.Generator, texts: tuple[str, ...]) -> str:
    return texts[int(rng.integers(len(texts)))]


def _price(rng: np.random.Generator) -> int:
    return round(10 ** (float(rng.random()) * 6) * 100)


def _next_person(rng: np.random.Generator, last: int) -> int:
    active = min(last + 1, ACTIVE_PERSONS)
    return last + 1 - active + int(rng.integers(active + LEAD))


def _next_auction(rng: np.random.Generator, last: int) -> int:
    lowest = max(last - AUCTIONS_IN_FLIGHT, 0)
    return lowest + int(rng.integers(last - lowest + 1 + LEAD))


def _channel(rng: np.random.Generator) -> tuple[str, str]:
    if rng.integers(2) > 0:
        hot = _one_of(rng, HOT_CHANNELS)
        return hot, f"{SITE}/{hot.lower()}/a/b/item.htm?query=1"
    number = int(rng.integers(CHANNELS))
    url = f"{SITE}/{number % 97}/{number % 89}/{number % 83}/item.htm?query=1"
    return f"channel-{number}", url + (f"&channel_id={number * 7_919 % 1_000_003}" if number % 10 else "")
