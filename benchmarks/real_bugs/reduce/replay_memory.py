# A replay memory whose newest state is handed to the player, who adds noise to it. The noise gets into the memory.
import torch


class Player:
    def __init__(self, noise):
        self.noise = noise
        self.moves = 0

    def act(self, state):
        state.add_(self.noise)
        self.moves += 1
        return state.sum()


class Game:
    def __init__(self, size):
        self.size = size
        self.clock = 0

    def observe(self):
        self.clock += 1
        return torch.cos(torch.arange(self.size, dtype=torch.float32) * self.clock)

    def reward(self, action):
        return torch.tanh(action) - 0.1 * self.clock


class Memory:
    def __init__(self, slots, size):
        self.slots = torch.zeros(slots, size)
        self.position = 0


def encode(observation):
    return (observation - observation.mean()) / (observation.abs().max() + 1e-6)


def remember(slots, observation):
    new = torch.slice_scatter(slots, encode(observation).unsqueeze(0), 0, 0, 1)
    new = torch.roll(new, 1, 0)
    slots.copy_(new)
    return new


def latest(slots, observation):
    code = encode(observation)
    merged = torch.slice_scatter(slots, code.unsqueeze(0), 0, 0, 1)
    slots.copy_(merged)
    return merged


def play(rounds):
    game, player, memory = Game(4), Player(1.0), Memory(3, 4)
    compiled = torch.compile(latest, fullgraph=True)
    for _ in range(rounds):
        state = compiled(memory.slots, game.observe())
        action = player.act(state[0])
        print(round(action.item(), 4), round(game.reward(action).item(), 4))
    print([[round(v, 3) for v in row] for row in memory.slots.tolist()])
    print("moves:", player.moves)


play(3)
