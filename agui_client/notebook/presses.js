// Presses of buttons, of which the last counts; stands before the scripts that have buttons.
// A kernel that was busy finds all that was pressed meanwhile: it asks whether a press was the last one, and a page that
// says so presses nothing more until the kernel answers.

const PATIENCE = 3000;
const on_its_way = (name, why) => `“${name}” is on its way: ${why}. `
  + "You can change what you entered, and press again: the last press counts.";
const BUSY = "the kernel is busy, or it was restarted and asks no more";

// Args: the model, which says why a press may be on its way for long, if no kernel is asked; `lock`, called with whether the form is locked; `wait`, called with a sentence when a press has not
// arrived after 3 seconds, or with nothing when it has.
function presses(model, lock, wait) {
  const page = Math.random().toString(36).slice(2);
  let number = 0, timer;
  const is_latest = (press_id) => press_id === `${page}-${number}`;
  return {
    press(name, message) {
      number += 1;
      lock(true);
      clearTimeout(timer);
      wait("");
      timer = setTimeout(() => { lock(false); wait(on_its_way(name, model.get("shown").slow ?? BUSY)); }, PATIENCE);
      // After the timer: to a kernel that was restarted, sending may fail.
      model.send({ ...message, press_id: `${page}-${number}` });
    },
    // Returns whether a message of the kernel's was about a press.
    receive(message) {
      if (message.arrived === undefined) return false;
      if (is_latest(message.arrived)) {
        clearTimeout(timer);
        wait("");
        lock(true);
        model.send({ latest: message.arrived });
      }
      return true;
    },
    // Says that the kernel has answered.
    end() {
      clearTimeout(timer);
      wait("");
      lock(false);
    },
  };
}
