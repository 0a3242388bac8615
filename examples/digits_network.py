"""A network of 9,610 weights learns to read digits without gradients: a module in, a module out.

Needs PyTorch and scikit-learn: pip install 'lmma[torch]' scikit-learn
"""

import torch
from sklearn.datasets import load_digits

import lmma
from lmma.integrations.torch import objective

digits = load_digits()
images, labels = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 10))


def loss(net, images, labels):
    return torch.nn.functional.cross_entropy(net(images), labels)


def batch(generator):
    """Return 256 images, the same for all candidates of a generation."""
    rows = torch.randint(1500, (256,), generator=generator)
    return images[rows], labels[rows]


fun = objective(net, loss, batch=batch)
result = lmma.minimize(
    fun, net, 0.05, vectorized=True, maxfevals=10_000, rng=1, stagnation=False, tolx=0, tolfun=0
)
trained = result.tree.decode(result.mean)  # not the luckiest candidate but the centre of the search
accuracy = float((trained(images[1500:]).argmax(1) == labels[1500:]).float().mean())
print(f"{result.nfev:,} evaluations, {accuracy:.1%} of the digits never seen are read")
