"""The rate limit: a budget per minute for each key, in bounded memory."""

from tinyagi.server.access import MAX_KEYS, RateLimit


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_key_has_its_own_budget() -> None:
    limit = RateLimit(3, clock=Clock())

    assert [limit.take("ada") for _ in range(4)] == [0, 0, 0, 20]
    assert limit.take("bob") == 0


def test_a_budget_refills_up_to_its_size() -> None:
    clock = Clock()
    limit = RateLimit(2, clock=clock)
    limit.take("ada"), limit.take("ada")

    clock.now = 30
    assert (limit.take("ada"), limit.take("ada")) == (0, 30)

    clock.now = 10_000
    assert [limit.take("ada") for _ in range(3)] == [0, 0, 30]


def test_a_refused_attempt_costs_nothing() -> None:
    clock = Clock()
    limit = RateLimit(1, clock=clock)
    limit.take("ada")
    for _ in range(100):
        limit.take("ada")

    clock.now = 60
    assert limit.take("ada") == 0


def test_zero_means_no_limit() -> None:
    limit = RateLimit(0)

    assert not any(limit.take("ada") for _ in range(1_000))
    assert limit.wait("ada") == 0


def test_asking_for_the_wait_costs_nothing() -> None:
    limit = RateLimit(1, clock=Clock())

    assert (limit.wait("ada"), limit.wait("ada"), limit.take("ada"), limit.wait("ada")) == (0, 0, 0, 60)


def test_the_number_of_keys_is_bounded() -> None:
    limit = RateLimit(1, clock=Clock())
    for number in range(MAX_KEYS + 500):
        limit.take(f"nobody {number}")

    assert len(limit._buckets) == MAX_KEYS
