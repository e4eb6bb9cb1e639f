<?xml version="1.0" encoding="UTF-8"?>
<!-- A gsa-feed as Thunderstone items, without checks. XSLT has no base64: contents are copied as they are. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
    xmlns:dt="urn:schemas-microsoft-com:datatypes">
  <xsl:template match="/">
    <ThunderstoneReplication><xsl:apply-templates select="//record"/></ThunderstoneReplication>
  </xsl:template>
  <xsl:template match="record">
    <Item>
      <Type>I</Type>
      <Url><xsl:value-of select="@url"/></Url>
      <Title><xsl:value-of select="metadata/meta[@name = 'Title']/@content"/></Title>
      <xsl:if test="not(content/@encoding)"><Body><xsl:value-of select="content"/></Body></xsl:if>
      <Meta>
        <xsl:for-each select="metadata/meta[@name != 'Title']">
          <xsl:value-of select="concat(@name, ': ', @content, '&#10;')"/>
        </xsl:for-each>
      </Meta>
      <Modified><xsl:value-of select="@last-modified"/></Modified>
      <MimeType><xsl:value-of select="@mimetype"/></MimeType>
      <xsl:if test="content/@encoding">
        <RawData dt:dt="bin.base64"><xsl:value-of select="content"/></RawData>
      </xsl:if>
    </Item>
  </xsl:template>
</xsl:stylesheet>
