"""The HTTP server of the status page: routes, answers, sign-in, the live feed.

What it shows is made elsewhere in admin/; its files are in web/.
"""
