import pytest

from transforms.sinks.push.model import Appliance, ApplianceProtocol


@pytest.mark.parametrize(
    ("url", "profile", "name"),
    [
        ("http://gsa.example.com:19900", "", "gsa.example.com_19900"),
        ("http://gsa-example.com:19900", "", "gsa-example.com_19900"),
        ("http://[::1]:19900", "", "1__19900"),
        (
            "https://www.example.com:443/texis/dowalk/recvdata.xml",
            "in tranet/..",
            "www.example.com_443_texis_dowalk_recvdata.xml_in_tranet",
        ),
    ],
)
def test_a_folder_is_named_after_an_appliance(url: str, profile: str, name: str) -> None:
    assert Appliance(protocol=ApplianceProtocol.FEEDERGATE, url=url, profile=profile).name == name
