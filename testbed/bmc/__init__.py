"""BMCs for machines on loopback: Redfish over HTTP and IPMI over UDP, each in front of a hollow machine."""
