<?xml version="1.0" encoding="UTF-8"?>
<!-- A gsa-feed of records without a content as another one, without checks. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:template match="/">
    <gsafeed>
      <header><xsl:copy-of select="gsafeed/header/*"/></header>
      <group><xsl:apply-templates select="//record"/></group>
    </gsafeed>
  </xsl:template>
  <xsl:template match="record">
    <record>
      <xsl:copy-of select="@*"/>
      <metadata>
        <xsl:for-each select="metadata/meta"><meta name="{@name}" content="{@content}"/></xsl:for-each>
      </metadata>
    </record>
  </xsl:template>
</xsl:stylesheet>
