"""A small network learns; the same seed gives the same weights."""

import torch

torch.manual_seed(1)
torch.set_num_threads(2)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(2048, 32), torch.randn(2048, 1))
for _ in range(5):
    for x, y in torch.utils.data.DataLoader(data, batch_size=64, num_workers=2):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
print(f"{loss.item():.4f}", f"{sum(p.sum().item() for p in model.parameters()):.3f}")
