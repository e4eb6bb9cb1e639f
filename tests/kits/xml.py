"""Words of XML documents."""

from kits.base import words

XML = words(
    "<¦>¦/>¦</¦\"¦'¦=¦&¦;¦&amp;¦&lt;¦&#0;¦&#xD;¦&x;¦<!--¦-->¦<![CDATA[¦]]>¦<?¦?>¦"
    "<?xml version='1.0'?>¦<!DOCTYPE¦<!DOCTYPE x [¦]>¦<!ENTITY x 'y'>¦ xmlns='u'¦"
    ' xmlns:n=\'u\'¦<?xml version="1.0" encoding="latin-1"?>¦ encoding="utf-16"¦\xef\xbb\xbf¦n:'
)
