"""What is installed with the package, besides its modules."""

from hatchling.builders.wheel import WheelBuilder

from tests.tidy.repository import ROOT


def test_the_page_is_in_the_wheel() -> None:
    shipped = {one.distribution_path for one in WheelBuilder(str(ROOT)).recurse_included_files()}
    page = {f"defib/web/static/{path.name}" for path in (ROOT / "src/defib/web/static").iterdir()}
    assert {"defib/web/static/index.html"} <= page
    assert page <= shipped
