from unit.test_onboarding import *
def test_show(facts):
    f = facts()
    print(onboarding.render(f))
    from rich.console import Console
    Console(width=100, highlight=False).print(onboarding.table(f))
