// An open dialog: its reason has the focus at once. Who opened it with a key or a press goes on typing.
const dialogs = (window.indoubtDialogs ??= { watches: false });

function focusReason() {
  const field = document.querySelector("[role='dialog'] [class*='-reason'] input:not([data-met])");
  if (!field) return;
  field.dataset.met = "";
  field.focus({ preventScroll: true });
}

if (!dialogs.watches) {
  dialogs.watches = true;
  new MutationObserver(focusReason).observe(document.body, { childList: true, subtree: true });
}
