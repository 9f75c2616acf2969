"""`defib demo`: a show of the real operator on a cluster that lives in this process."""
