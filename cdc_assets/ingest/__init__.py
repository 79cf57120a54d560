"""From the source to bronze: poll, plan, read, record; thin, since planning decides."""
