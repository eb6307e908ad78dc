"""What a file of rows is: dialects of tables, and formats of translators and subtitles."""
