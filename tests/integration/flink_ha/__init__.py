"""A Flink with high availability by ZooKeeper, whose job can be held between a checkpoint's end and its commit."""
