"""The formats by their names: those that `transforms.formats` lists, and of other packages."""

from feedferry.transforms.formats.base import Format
from feedferry.transforms.registry import Registry

FORMATS = Registry("feedferry.formats", Format)
