"""All routings in one frame: the same trunk, data, loss and number of steps, beside plain baselines.

A **network** is a trunk, a pose space and a routing; without capsules it is the same trunk under average
pooling or under a dense layer. Uniform routing, capsules that ignore agreement, is a baseline too: what it
reaches is not due to routing. These three baselines are in every comparison.

Each network is trained three times for each seed, once for each **part** of the data:

- `digits`: single digits at random places of a canvas. Tested on test digits at random places (accuracy),
  on affine transformations of them, on pairs of digits side by side (both must be right; only networks that
  read images of any size), and under attack (FGSM and PGD, white box, ε in units of pixels from 0 to 1).
- `overlap`: two overlapping digits, trained on such pairs. Tested on pairs of test digits; a pair is right
  only if both digits are. A network is told that there are two.
- `views`: rendered toys from familiar directions. Tested on other toys from these directions and from novel
  ones.

A fourth part, `speed`, is not trained: images per second of a training step, and its peak memory.

**Equal budget.** Optimizer, learning rate, schedule, batch size, number of steps and the order of the
images are the same for all networks, and nothing is tuned for any of them. Capsule heads have as many
capsule types, and poses of a size that makes the number of parameters about the same. The epoch that is
tested is the one with the best accuracy on validation images, which are held out of the training images;
test images choose nothing.

**One loss.** All networks minimize the cross-entropy of their logits. Lengths of capsules and activations
of EM routing have logits (before the sigmoid) as much as a linear layer, so no network needs a loss of its
own, and a difference between networks is never a difference between losses. With two digits, each has half
of the probability. The papers use other losses: the margin loss for lengths, the spread loss for EM
routing.

One **cell** is a network, a part and a seed. Its result is one JSON file whose name holds a digest of all
its settings: a finished cell is never computed again, and other settings are another cell.
"""
