from random import Random

import pytest

from evalframe.core.errors import BadSample
from evalframe.core.sample import Sample
from evalframe.solvers.few_shot import FewShot

POOL = tuple([{"role": "system", "content": f"question {n}"}, {"role": "system", "content": f"answer {n}"}] for n in range(6))
PROMPT = [{"role": "system", "content": "task"}, {"role": "user", "content": "q"}]


def shown(step, seed):
    return [message["content"] for message in step(PROMPT, Sample(input=PROMPT), Random(seed))]


def test_examples_stand_before_the_last_message():
    assert shown(FewShot(POOL, 2), 1) == ["task", "question 0", "answer 0", "question 1", "answer 1", "q"]


def test_random_examples_are_drawn_by_the_samples_own_randomness():
    step = FewShot(POOL, 2, "random")
    assert shown(step, 1) == shown(step, 1)
    assert len({tuple(shown(step, seed)) for seed in range(20)}) > 5
    assert len({text for seed in range(20) for text in shown(step, seed)}) == 2 + 2 * 6


def test_nothing_that_is_given_is_changed():
    before = [dict(message) for message in PROMPT]
    prompt = FewShot(POOL, 1)(PROMPT, Sample(input=PROMPT), Random(0))
    prompt[1]["content"] = "spoilt"
    assert before == PROMPT
    assert POOL[0][0]["content"] == "question 0"


def test_a_text_prompt_is_told():
    with pytest.raises(BadSample, match="list of messages"):
        FewShot(POOL, 1)("text", Sample(input="text"), Random(0))
