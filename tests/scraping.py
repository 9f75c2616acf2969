"""The numbers of an operator, as Prometheus gets them."""

from defib.app import Operator


def scraped(operator: Operator) -> str:
    probes = operator.probes()
    probes.before_scrape()
    return probes.scrape().decode()
