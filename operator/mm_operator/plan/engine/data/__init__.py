"""Tables that change when upstream or hardware does; YAML, so that adding a row needs no code."""
