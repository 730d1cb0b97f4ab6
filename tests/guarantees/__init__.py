"""What the gateway promises, and the tests that hold it: docs/guarantees.md is made from here.

`promises.txt` has the text of each promise, under its number. A test that holds one is marked
`@pytest.mark.guarantee("4a")`, with more numbers if it holds more.
"""
