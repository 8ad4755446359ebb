"""Game scores: the ten best players of each game and hour, and of all time, without cheaters."""

from pyspark.sql import SparkSession

import headrace as hr
from headrace.testing import TestDriver

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
    .to(hr.KafkaSink("leaderboards", key=["game"]))
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
    .named("leaderboard_all_time", description="The ten best players of each game so far; a cheater leaves it.")
)

HOUR = 3_600_000


def test_an_hour_is_final_and_a_cheater_leaves_the_running_board(spark: SparkSession) -> None:
    driver = TestDriver([leaderboard, all_time], spark)

    def play(player: str, game: str | None, score: int, hours: float) -> None:
        played_at = f"1970-01-01T{int(hours):02}:{int(hours * 60) % 60:02}:00Z"
        value = {"game": game, "score": score, "session": {"id": "s", "level": 1}, "played_at": played_at}
        driver.pipe("scores", key=player, value=value)

    for player in ("ann", "ben", "eve"):
        driver.pipe("players", key=player, value={"nick": player.upper(), "country": None})
    for player, score in (("ann", 10), ("ben", 20), ("ann", 30), ("eve", 99)):
        play(player, "chess", score, 1)
    play("ann", None, 5, 1)
    driver.cut()
    driver.pipe("cheaters", key="eve", value={"reason": "bot"})
    driver.cut()
    play("eve", "chess", 100, 1.5)
    play("ben", "chess", 1, 2.5)
    driver.crash("after outputs")
    driver.cut()
    rows = {row.game: row for row in driver.read("leaderboard_per_hour").collect()}
    assert [tuple(entry) for entry in rows["chess"].top10] == [("EVE", 99), ("ANN", 30), ("BEN", 20)]
    assert [tuple(entry) for entry in rows[None].top10] == [("ANN", 5)]
    totals = {row.game: row for row in driver.read("leaderboard_all_time").collect()}
    assert [tuple(entry) for entry in totals["chess"].top10] == [("ANN", 30), ("BEN", 20)]
    for node in ("leaderboard_per_hour", "leaderboard_all_time"):
        assert sorted(driver.backfill(node).collect(), key=str) == sorted(driver.read(node).collect(), key=str)
    driver.close()
