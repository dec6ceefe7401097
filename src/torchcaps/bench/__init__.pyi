from torchcaps.bench.measure import machine as machine
from torchcaps.bench.networks import network_rows as network_rows
from torchcaps.bench.routings import routing_rows as routing_rows
from torchcaps.bench.scaling import scaling_rows as scaling_rows
