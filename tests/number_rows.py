"""Rows that ask for numbers, for tests that need some samples."""


def numbers(count, start=0):
    return [{"input": f"Say the number {number}", "ideal": str(number)} for number in range(start, start + count)]
