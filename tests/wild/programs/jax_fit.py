"""Code compiled at run time, and gradients of it."""

import jax
import jax.numpy as jnp

x = jax.random.normal(jax.random.PRNGKey(0), (512, 16))
target = jnp.sin(x).sum(axis=1)


def loss(weights):
    return jnp.mean((jnp.tanh(x @ weights[0]) @ weights[1] - target) ** 2)


step = jax.jit(lambda w: [p - 0.05 * g for p, g in zip(w, jax.grad(loss)(w))])
weights = [jax.random.normal(jax.random.PRNGKey(1), (16, 32)), jax.random.normal(jax.random.PRNGKey(2), (32,))]
for _ in range(300):
    weights = step(weights)
print(f"{loss(weights):.3f}")
