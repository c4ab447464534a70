"""How parts are cascaded: plans, and the proposals that they combine to."""
