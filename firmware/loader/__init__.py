"""What starts the application and cannot be replaced over the air; docs/node.md says how.

On the board it lies in /loader, and /main.py has two lines: `from loader.start import start` and
`start()`.
"""
