"""The MCP server (``indoubt mcp``): what an AI assistant may ask a collector. It gives no order.

It asks through the command line's client and nothing else, with whatever token that has.
"""
