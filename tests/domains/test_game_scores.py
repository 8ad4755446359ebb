"""Game scores: the ten best players of each game and hour, and of all time, without cheaters."""

from __future__ import annotations

import pytest

import headrace as hr
from tests.conftest import Drive

pytestmark = pytest.mark.fast

scores = hr.Topic(
    "scores",
    key="player_id STRING",
    value="game STRING, score INT NOT NULL, session STRUCT<id: STRING NOT NULL, level: INT>, played_at TIMESTAMP NOT NULL",
    timestamp="played_at",
)
players = hr.Topic("players", key="player_id STRING", value="nick STRING, country STRING")
cheaters = hr.Topic("cheaters", key="player_id STRING", value="reason STRING NOT NULL")

fair_scores = scores.lookup(cheaters.table(), on="player_id").where("reason IS NULL")

best_per_hour = (
    fair_scores.lookup(players.table(), on="player_id")
    .group_by("game", "player_id", "nick")
    .window(hr.tumbling("1 hour"), grace="2 minutes")
    .aggregate(best=hr.max("score"), rounds=hr.count(), level=hr.max("session.level"))
    .suppress(hr.until_window_closes())
)

leaderboard = (
    best_per_hour.group_by("game", "window_start")
    .aggregate(
        top10=hr.top(10, "struct(nick, best)", by="best"),
        players=hr.count(),
        rounds=hr.sum("rounds"),
    )
    .to(hr.KafkaSink("leaderboards"))
    .named("leaderboard_per_hour", description="The ten best players of each game and hour, final.")
)

all_time = (
    scores.group_by("game", "player_id")
    .aggregate(best=hr.max("score"), rounds=hr.count())
    .join(cheaters.table(), on="player_id", how="left")
    .where("reason IS NULL")
    .join(players.table(), on="player_id", how="left")
    .group_by("game")
    .aggregate(top10=hr.top(10, "struct(nick, best)", by="best"), rounds=hr.sum("rounds"))
    .to(hr.KafkaSink("all_time"))
    .named(
        "leaderboard_all_time", description="The ten best players of each game so far; a cheater leaves it."
    )
)


def test_an_hour_is_final_and_a_cheater_leaves_the_board_of_all_time(drive: Drive) -> None:
    driver = drive(leaderboard, all_time)

    def play(player: str | None, game: str | None, score: object, at: str, level: int | None = 1) -> None:
        value = {"game": game, "score": score, "session": {"id": "s", "level": level}}
        driver.pipe("scores", key=player, value=value | {"played_at": f"2026-01-02T{at}:00Z"})

    def boards(node: str) -> dict[str | None, list[tuple[object, ...]]]:
        return {row["game"]: [tuple(entry.values()) for entry in row["top10"]] for row in driver.rows(node)}

    for player in ("ann", "ben", "eve"):
        driver.pipe("players", key=player, value={"nick": player.title(), "country": None})
    for player, score in (("ann", 10), ("ben", 20), ("ann", 30), ("eve", 99)):
        play(player, "chess", score, "10:00")
    play("ann", None, 5, "10:10")  # no game: a board like others
    play("zoe", "go", 7, "10:20", level=None)  # nobody knows her
    driver.cut()
    driver.pipe("cheaters", key="eve", value={"reason": "bot"})
    driver.cut()
    play("eve", "chess", 100, "10:30")  # it does not count: she is known by now
    play("ben", "chess", "many", "10:40")
    play("ben", "chess", 1, "11:03")  # ten o'clock is over, and its grace
    play("ben", "chess", 500, "10:50")  # late
    driver.crash("after outputs")
    driver.cut()

    assert boards("leaderboard_per_hour") == {
        "chess": [("Eve", 99), ("Ann", 30), ("Ben", 20)],
        "go": [(None, 7)],
        None: [("Ann", 5)],
    }
    assert boards("leaderboard_all_time") == {
        "chess": [("Ben", 500), ("Ann", 30)],
        "go": [(None, 7)],
        None: [("Ann", 5)],
    }
    driver.pipe("cheaters", key="eve", value=None)  # cleared: she is back
    driver.cut()
    assert boards("leaderboard_all_time")["chess"] == [("Ben", 500), ("Eve", 100), ("Ann", 30)]
    (late,) = driver.records("leaderboard_per_hour", "late")
    assert late["timestamp"].minute == 50
    (dead,) = driver.dead_letters("scores")
    assert "score is not INT" in dead["reason"]
    for name in ("leaderboard_per_hour", "leaderboard_all_time"):
        driver.check(name)
