"""fedveil on Flower: shields as client mods, games as apps, deployments on loopback, and what a real server saw.

Nothing here is imported before it is asked for: `import fedveil` works without Flower.
"""
