"""Around a stop: savepoints, restore, drills. Imports `framework` and `state`; nothing imports it."""
