/** The page while nothing is recorded yet: how maps come to be, and where we are looking for them. */

import {element} from '../dom/elements.js';

/** {element, update({logdir, problem})}: `problem` says why the list of recordings could not be read. */
export function createHelp() {
  const place = element('p', {class: 'looked'});
  const again = element('p', {class: 'again', role: 'status'}, 'looking again…');
  const command = (text) => element('pre', {}, element('code', {}, text));
  const box = element(
    'section',
    {class: 'help', hidden: true},
    element('h1', {}, 'No attention maps yet'),
    place,
    element('p', {}, 'Training records the maps of all heads and layers at every evaluation:'),
    command('python train.py'),
    element('p', {}, 'Sentences of your own that are followed through the whole training:'),
    command(`python train.py attention.probes='["Emi prefers the apple over the orange."]'`),
    element('p', {}, 'Maps of what a trained model writes or translates (name the run that it is in):'),
    command('python generate.py run=runs/demo_enja prompt="Emi likes apples." attention=true'),
    again,
  );
  const update = ({logdir, problem}) => {
    if (problem) {
      box.hidden = false;
      place.replaceChildren(problem);
      return;
    }
    place.replaceChildren(
      ...(logdir
        ? [
            'No recording lies below ',
            element('code', {}, logdir),
            ', in a folder named ',
            element('code', {}, 'attention'),
            ' of any run.',
          ]
        : [
            'TensorBoard does not tell which folder to look into, so no run is visible here. Start it with one folder: ',
            element('code', {}, 'tensorboard --logdir runs'),
            '; ',
            element('code', {}, '--logdir_spec'),
            ' may name folders that hold no recording.',
          ]),
    );
  };
  return {element: box, update};
}
