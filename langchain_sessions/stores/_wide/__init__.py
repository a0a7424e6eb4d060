"""For engines over wide-column stores: lists, large values and small partitions, whatever the driver."""
