"""What a record knows of steps that ran, so that none runs twice."""
