# A lookup fails inside autocast; the caller catches the error and goes on.
import torch


@torch.compile(backend="eager", fullgraph=True)
def lookup(table, index):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return table.index_select(0, index)


table = torch.eye(3)
for index in (torch.tensor([0]), torch.tensor([99])):
    try:
        print(lookup(table, index))
    except (IndexError, RuntimeError) as error:
        print("caught", type(error).__name__)
print("autocast on:", torch.is_autocast_enabled("cpu"), "product:", (table @ table).dtype)
