"""What the modules of the model share: the names of the parameters that are never decayed."""

from torch import nn


class Module(nn.Module):
    """``nn.Module`` that knows which of its parameters weight decay should leave alone."""

    decays = True
    """Whether weight decay applies to the parameters of this module and its children."""

    def no_weight_decay(self) -> set[str]:
        """Name the parameters to leave out of weight decay: class tokens and position tables.

        Names are those of ``named_parameters()``. Weight decay would pull tokens and tables towards
        zero. Without it they still train.
        """
        return {
            name
            for path, module in self.named_modules()
            if isinstance(module, Module) and not module.decays
            for name, _ in module.named_parameters(path)
        }
