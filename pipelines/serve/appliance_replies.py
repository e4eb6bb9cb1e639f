"""What an appliance says to who pushes feeds, to the letter: clients compare it."""

SUCCESS = "Success"
UNAUTHORIZED = "Error - Unauthorized Request"
DISK_FULL = "Feed not accepted due to insufficient disk space. Contact Google for Work Support."
AT_CAPACITY = "error: group db at capacity."
INTERNAL_ERROR = "Internal Error"
