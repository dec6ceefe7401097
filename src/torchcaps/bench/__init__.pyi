from torchcaps.bench.gpus import GPUS as GPUS
from torchcaps.bench.measure import check_device as check_device
from torchcaps.bench.measure import machine as machine
from torchcaps.bench.networks import network_rows as network_rows
from torchcaps.bench.routings import routing_rows as routing_rows
from torchcaps.bench.scaling import scaling_rows as scaling_rows
from torchcaps.bench.size import network_size as network_size
from torchcaps.bench.size import size_rows as size_rows
