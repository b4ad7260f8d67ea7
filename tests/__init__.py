"""The tests. A test that shows a requirement carries `@pytest.mark.req("CI-9")`."""
