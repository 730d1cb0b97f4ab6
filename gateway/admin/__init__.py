"""What an operator sees and does: numbers, alarms, logs, metrics, the status page.

Nothing here decides about a sensor, and nothing is published here (presence/).
"""
